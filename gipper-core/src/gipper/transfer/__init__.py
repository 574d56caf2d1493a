"""Files up and files down: the pass over inputs, one tar stream each way, a confined extractor."""
