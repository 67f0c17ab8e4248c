"""Images of classes, by default scikit-learn's handwritten digits: which class is it?"""
