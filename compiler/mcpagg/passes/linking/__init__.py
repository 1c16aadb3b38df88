"""The fourth pass: names, routes, and what is listed of what was found."""
