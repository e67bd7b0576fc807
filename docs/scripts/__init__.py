"""Programs that write parts of the documentation. They are not part of the installed package."""
