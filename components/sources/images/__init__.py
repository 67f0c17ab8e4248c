"""Images in folders, labelled by folder or by a file, as a source.

tree        which files a user means, and none outside the folder that he named
labels/     a label file as columns: a CSV, JSON, MATLAB's v5 and v7.3
labelling   files and labels to the rows of a catalog
probe       what an image is, from its bytes, without decoding it
pixels      an image decoded to one fixed form (Pillow)
storing     an image's bytes as one of three layouts has them
source      the `Source`: slices of the catalog in, record batches out
"""
