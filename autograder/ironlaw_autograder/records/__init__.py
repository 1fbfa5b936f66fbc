"""What must hold in a lab's record on any device: the hidden checks of the measuring cells.

A lab's hidden tests stand in its source. These are longer than a cell should be, and so
they stand here, one module per lab, each with `holds(student)`.
"""
