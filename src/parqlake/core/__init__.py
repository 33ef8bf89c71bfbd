"""The pure room: values and decisions, no input or output."""
