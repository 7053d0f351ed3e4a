#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// The standard streams of a rank to which a setting applies.
struct Streams {
  bool out = false;
  bool err = false;

  friend bool operator==(Streams a, Streams b) { return a.out == b.out && a.err == b.err; }
};

/// Reads torchrun's notation: "0" none, "1" stdout, "2" stderr, "3" both, for every rank; or "0:3,2:1" for some local
/// ranks, none for the others.
/// @param flag  named in errors
/// @return  one entry for each local rank
/// @throws UsageError  for any other text, and for a local rank that does not exist
std::vector<Streams> parse_streams(const std::string& flag, const std::string& text, int local_ranks);

/// Reads "0,2": which local ranks' output is shown. An empty text means all.
/// @throws UsageError  as above
std::vector<bool> parse_rank_filter(const std::string& flag, const std::string& text, int local_ranks);

}  // namespace lockstep
