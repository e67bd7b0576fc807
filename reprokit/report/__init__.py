"""From records to what people and programs read: Markdown, pages, JUnit, JSON, CSV, annotations, history, catalogue."""
