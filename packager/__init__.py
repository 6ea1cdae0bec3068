"""The packager: a multi-file workspace into one readable module."""
