"""The command line: `parqlake`, an edge over the public calls."""
