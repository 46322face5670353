"""SHOW: data in, plotly figure or sentence out. No Streamlit, no SQL, no outside host.

Figures have transparent backgrounds and inherit the page's font colour, so that light and dark both work.
"""
