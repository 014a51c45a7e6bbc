"""Drivers that replace the nodes of a cluster."""
