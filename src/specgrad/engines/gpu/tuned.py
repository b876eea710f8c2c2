"""The constants of the model in `tiles`, measured on an H200 for one geometry of each kind; they
are the same for all shapes."""

LONGEST = 32
"""The most rows of a window that are held in registers; for columns, less than twice as many."""
TUNE = {
    "lanes": 128,  # per program
    "lanes short": 256,  # where a program has one or two rows only
    "lanes inner": 256,  # where neighbours in memory are of the inner batch, so that a thread has several of them
    "taps inner": 9,  # of rows and columns, up to which that pays
    "rows small": 8,  # rows of windows per program
    "rows few": 4,  # of up to three taps that move by more than one, or in rows of less than 32 bytes of codes
    "rows deep": 1,  # of winners, where windows have depth too
    "rows max": 64,  # registers for rows
    "rows max half": 104,  # of half floats, whose vectors have twice the columns
    "rows winners": 56,
    "rows winners half": 80,  # where windows move by one cell
    "rows packed": 104,
    "rows sum": 64,
    "rows smooth": 16,
    "wide winners": 27,  # registers for rows that are streamed
    "wide winners ahead": 52,  # and fetched ahead
    "wide sum half": 104,
    "columns max": 8,  # columns of windows per lane, at most
    "columns winners": 4,
    "columns winners half": 8,
    "columns packed": 8,
    "columns sum": 8,
    "columns smooth": 4,
    "columns odd": 2,  # of unaligned rows
    "columns odd back": 4,
    "columns back": 52,  # columns of cells per lane × rows of windows that read a cell
    "vectors": 2,  # of sixteen bytes per lane, where rows of maxima are streamed
    "one call": 16,  # columns of a window up to which rows are folded in the same call
    "one call inner": 8,  # of winners, where neighbours in memory are of the inner batch
    "stream max": 6,  # rows of a window from which rows are streamed
    "stream winners": 4,
    "stream sum": 8,
    "step": 4,  # rows that a program reads before it writes
    # of winners of more than `rows low` rows, of maxima of one column, and where cells are read one
    # by one
    "step low": 2,
    "rows low winners": 9,
    "rows ahead": 32,  # of a plane, from which the next step's rows are fetched
    "taps ahead": 9,  # and of windows; of winners along two axes, all that are streamed
    "registers": 112,  # of a lane, without those that carry rows
    "registers volume_forward max": 96,  # of a lane that streams down the depth
    "registers volume_forward winners": 128,
    "registers half": 144,  # where winners of half floats are held
    "segment": 8,  # rows of a program, as a multiple of the window's
    "segment large": 9,  # of more than eight
    "segment small": 14,  # rows of a program, where windows have up to three
    "depth volume_forward": 5,  # taps along each of three axes up to which these are folded in one call
    "depth volume_forward winners": 3,
    "rows volume_forward": 4,  # rows of a program that streams down the depth
    "rows volume_forward max": 32,  # and registers for its planes
    "rows volume_forward winners": 32,
    "rows volume_forward sum": 64,
    "segment volume_forward": 13,  # planes of a program, as a multiple of the window's
    "sums volume_backward": 24,  # that a lane carries which streams down the depth, backwards
    "segment volume_backward": 11,
    "cells smooth": 48,  # cells of four bytes in registers
    "cells smooth half": 16,
    "back small": 4,  # rows of cells per program
    "back weights": 8,
    "matches": 512,  # of cells with windows, in one step
    "matches flat": 49,  # windows per cell up to which a maximum's cotangents are found in one call
    "matches deep": 27,
    "matches cross": 25,  # the fewest for one call along rows and then columns
    "matches crossed": 100,  # the most
    "taps cross": 9,  # the fewest columns, if only they have taps
    "lanes cross": 8,  # the most lanes of a warp that only provide data for other lanes
    # rows of a window up to which cotangents go in runs, if halves take two calls; of half floats,
    # from `matches cross` on
    "taps ring": 15,
    "taps paired": 7,  # rows of a window from which codes go in pairs, where rows and columns go in one call
    "plane": 16,  # rows and columns up to which whole planes are held
    "plane taps": 4,  # rows of a window from which that pays for values of any plane, and any type
    "lanes planes": 32,  # of a program that has whole planes: one warp, in which numbers change threads without waiting
    "columns narrow": 48,  # cells of a row, up to which lanes of several rows share a program
    "taps narrow": 5,  # rows and columns of a window
    "taps narrow max": 3,
    "lanes narrow": 128,
    "rows narrow": 2,  # of a lane
    "lanes bins": 256,
    "rows bins": 14,
    "rows collect": 8,
    "fill": 1024,  # cells of four bytes that a program of whole planes fills at once
    "chunks": 2,  # and how often
    "chunks half": 8,
    "tile": 512,  # taps that a program of `reduce` reads at once
    "tile across": 4096,  # where neighbours in memory are of different windows
    "taps across": 128,
    "warps across": 32,
    "taps": 8,  # of one window, where windows are small
    "taps large": 4096,
    "taps large half": 1024,  # of winners among half floats
    "bytes large": 8192,  # that a program reads at once
    "share sum": 256,  # of these, a warp's
    "share max": 512,
    "unroll": 2,  # how often that is unrolled
    "unroll winners": 4,  # and of small windows
}
SMALL = 16
"""The most taps of rows and columns for which a smooth maximum holds all cells."""
LARGE = 32
"""The fewest taps for which many threads reduce a window that does not slide."""
