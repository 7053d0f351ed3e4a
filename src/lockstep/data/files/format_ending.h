#pragma once

#include <string>

namespace lockstep {

/// The end of a file's name that tells its format, in lower case and without ".gz" or ".zst": ".csv" for
/// "data.v2/Rows.CSV.gz"; empty if the name has no such end. The names of its folders do not count.
std::string format_ending(const std::string& path);

}  // namespace lockstep
