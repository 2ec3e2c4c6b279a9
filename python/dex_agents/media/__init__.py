"""Image bytes: checked, named by content, kept in a store; session state holds references only.

Here live the contract of a store (`contract`), what one call learns about bytes (`image_check`), the rules
for references (`references`) and two stores, in memory and in a directory. Showing images to a model is the
business of a runner. Begin with `contract`.
"""
