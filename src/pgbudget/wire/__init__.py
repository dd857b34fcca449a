"""What goes over the wire: requests read strictly and bounded, answers metered; one module a dialect."""
