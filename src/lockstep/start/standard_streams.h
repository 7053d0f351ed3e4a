#pragma once

namespace lockstep {

/// Opens /dev/null on those of the descriptors 0, 1 and 2 that are closed, as daemons and some shells leave them.
/// Otherwise the next file that the process opens gets such a number, and output meant for the screen is written into
/// that file. Call it before anything else is opened. Does nothing if all three are open.
void open_missing_streams() noexcept;

}  // namespace lockstep
