"""From records to what people and programs read: Markdown, pages, JUnit, JSON, CSV, annotations, history, catalogue.

Takes records and cases, gives text and files. Never runs a cell and never changes a record.
"""
