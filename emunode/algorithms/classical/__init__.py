"""Classical collectives by local rule, on the networks that have their links."""
