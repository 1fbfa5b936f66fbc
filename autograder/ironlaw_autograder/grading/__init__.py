"""From a folder of submissions to a gradebook, a table and feedback, through nbgrader."""
