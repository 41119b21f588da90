"""Results as pictures, drawn by Matplotlib, which is imported only when one is drawn."""
