"""Agreement on failures: the layer of a node that tells and decides, and the node that runs the collective again."""
