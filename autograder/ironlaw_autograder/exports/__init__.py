"""What an instructor takes out of a graded folder: tables, files for Canvas and Moodle, a report.

Everything here reads the gradebook, in which marks given by hand and late penalties count,
and beside it `grades.json` with what the judge said. Nothing here changes a grade.
"""
