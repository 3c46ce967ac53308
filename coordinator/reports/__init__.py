"""Pages, charts, tables and exports, made from run directories."""
