#pragma once

#include <string>

#include "lockstep/data/csv_reader.h"

namespace lockstep {

/// The columns of an NSL-KDD file, which make 122 features: 38 numbers, scaled by LogMinMax because byte counts span
/// nine orders of magnitude, and protocol, service and flag, one-hot over all their values. Class 0 is "normal", class
/// 1 any attack.
/// @param has_difficulty  true: records end with their difficulty, as in the data set's own files, and have 43 fields;
/// false: they have 42
/// Reference: Tavallaee et al., A detailed analysis of the KDD CUP 99 data set, 2009, doi:10.1109/CISDA.2009.5356528.
CsvSchema nsl_kdd_schema(bool has_difficulty);

/// Reads an NSL-KDD file for training: "features" [n, 122] float32, "labels" [n] int64. The first record shows whether
/// the file has the difficulty.
/// @throws Error  with file, line and column, as `read_csv`
CsvData read_nsl_kdd(const std::string& path);
/// Reads an NSL-KDD file for testing, scaled as the training file was.
std::shared_ptr<TensorDataset> read_nsl_kdd(const std::string& path, const CsvEncoding& encoding);

}  // namespace lockstep
