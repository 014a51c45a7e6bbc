"""Every group of an ensemble: read on a schedule, and toggled in waves where it is ready."""
