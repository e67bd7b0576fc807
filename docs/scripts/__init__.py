"""Programs that write parts of the documentation. They are no part of the installed package."""
