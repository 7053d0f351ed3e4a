#pragma once

#include <string>

#include "lockstep/data/csv_reader.h"

namespace lockstep {

/// The columns of an NSL-KDD file: 38 numbers, scaled by LogMinMax, since byte counts span nine orders of magnitude,
/// and protocol, service and flag one-hot over all their values, which makes 122 features. Class 0 is "normal", class 1
/// any attack.
/// @param has_difficulty  the files of the data set end with the difficulty of the record, 43 fields in all; without it
/// 42 Reference: Tavallaee et al., A detailed analysis of the KDD CUP 99 data set, 2009,
/// doi:10.1109/CISDA.2009.5356528.
CsvSchema nsl_kdd_schema(bool has_difficulty);

/// Reads an NSL-KDD file to train on: "features" [n, 122] float32, "labels" [n] int64. Whether the file has the
/// difficulty is seen from its first record.
/// @throws Error  with file, line and column, as `read_csv`
CsvData read_nsl_kdd(const std::string& path);
/// Reads one to test on, scaled as the training file was.
std::shared_ptr<TensorDataset> read_nsl_kdd(const std::string& path, const CsvEncoding& encoding);

}  // namespace lockstep
