"""One topic a file; every answer carries its view's name and the SQL to copy."""
