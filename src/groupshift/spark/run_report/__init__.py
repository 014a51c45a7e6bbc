"""What the reports of runs that change a cluster have in common; needs neither Spark nor a network."""
