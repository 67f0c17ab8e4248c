"""Images in folders, labelled by folder or by a file, as a source.

label_file  a label file, CSV, JSON or MATLAB, as columns (`label_table`)
labelling   files and labels to the rows of a catalog
probe       what an image is, from its bytes, without decoding it
pixels      an image decoded to one fixed form (Pillow)
storing     an image's bytes as one of three layouts has them
source      the `Source`: slices of the catalog in, record batches out
"""
