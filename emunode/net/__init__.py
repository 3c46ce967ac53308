"""Wire format, framed streams and the control protocol."""
