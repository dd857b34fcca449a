"""Price lists: what public sources say, as versions that a person reviews. Nothing here ever prices a request."""
