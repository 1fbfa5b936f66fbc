"""Things to move and pictures to read: one module per widget.

Each widget is three layers: a state and what follows from it (`State`, `compute`,
`describe`; pure functions of `ironlaw.predict`), a picture (`make` once, `update`
per change), and a thin shell of ipywidgets controls. matplotlib and ipywidgets are
imported when the first widget is, not by this package.

`canvas` draws, `controls` holds the shell's parts, `number_slider` a slider that takes
numbers as they were typed, `iron_law` is the first widget and the pattern for the others,
`figures` are still pictures, `guess` asks for a number before it shows one.
`layer_flops`, `activation_functions`, `optimizer_paths`, `adam_memory` and `roofline`
belong to chapter 2; `drawing`, `sizes` and `devices` are what they share. Taught in:
chapter 1 onwards.
"""
