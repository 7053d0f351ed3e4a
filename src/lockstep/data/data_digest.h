#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/dataset.h"

namespace lockstep {

/// What a dataset contains, in about a kilobyte: processes compare it to see whether they have the same samples.
struct DataDigest {
  std::string source;        ///< the file, for messages; not compared. Empty: unknown
  std::int64_t samples = 0;  ///< -1: there is no dataset
  /// True: `parts` are of all samples, in stretches of `part_size`. False: of some that were read, in the order of
  /// `looked_at`; empty if a sample that was read twice differed, or could not be read.
  bool is_whole = false;
  std::vector<std::uint64_t> parts;
  std::uint64_t unordered = 0;  ///< of all samples in any order; 0 unless is_whole

  std::int64_t part_size() const;
};

/// How long a dataset is looked at that writes no digests.
enum class LookAt {
  Many,  ///< samples, for 50 ms
  Few,   ///< four samples, as of data that was looked at before
};

/// Null: there is no dataset. A dataset that writes no digests is asked for some of its samples, each twice: four in
/// any case.
DataDigest digest_of(const Dataset* data, std::string source = "", LookAt look = LookAt::Many);

/// The digests of the samples in one part of a digest that is whole.
std::vector<std::uint64_t> digests_of_part(const Dataset& data, const DataDigest& digest, std::int64_t part);

/// The n-th sample that is looked at in data of this many samples. They spread over the data, and each is taken once.
std::int64_t looked_at(std::int64_t n, std::int64_t samples);

/// The first difference between two datasets.
struct DataDifference {
  std::int64_t samples = 0, others = 0;  ///< of both
  bool is_order = false;                 ///< both have the same samples
  std::int64_t part = -1;                ///< the first one that differs; -1: unknown
  std::int64_t first = 0, last = 0;      ///< the first sample that differs is one of these; 0 and -1: unknown

  /// A sentence. @param mine, theirs  whose data they are: "rank 1", "the checkpoint"
  std::string text(const std::string& mine, const std::string& theirs) const;
};

/// Nothing: no difference is known.
std::optional<DataDifference> find_difference(const DataDigest& own, const DataDigest& other);

nlohmann::json json_of(const DataDigest& digest);
/// Reads what json_of has made; a value of another form is the digest of data of which nothing is known.
std::optional<DataDigest> data_digest_of(const nlohmann::json& json);

}  // namespace lockstep
