"""The report of a whole migration as one HTML page; needs neither Spark nor a network."""
