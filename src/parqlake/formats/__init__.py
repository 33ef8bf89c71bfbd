"""Tables as a format of other programs, which open the lake themselves."""
