"""The report of a downgrade as one HTML page; needs neither Spark nor a network."""
