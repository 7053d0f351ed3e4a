#pragma once

#include <memory>
#include <string>

#include "lockstep/data/tensor_dataset.h"
#include "lockstep/detail/data/csv_encoding.h"
#include "lockstep/detail/data/csv_schema.h"

namespace lockstep {

/// A CSV file as tensors, and what was learned from it.
struct CsvData {
  std::shared_ptr<TensorDataset> dataset;  ///< "features" [n, d] float32, "labels" [n] int64 if there is a label
  CsvEncoding encoding;                    ///< for reading other files the same way
};

/// Reads a CSV file, plain or gzip, and learns from it what the schema leaves open. Use it on training data.
/// @throws Error  with file, line and column: if a quote is never closed, a record has more or fewer fields than the
/// others, a number column holds something other than a finite number, or a category has more than 65536 values; if the
/// header lacks a column of the schema or has another one, or there is no record; as `check_schema` and CsvEncoding
CsvData read_csv(const std::string& path, const CsvSchema& schema);

/// Reads another file with what was learned from the training file; nothing is learned from this file.
/// @throws Error  as above, and as CsvEncoding::encode
std::shared_ptr<TensorDataset> read_csv(const std::string& path, const CsvSchema& schema, const CsvEncoding& encoding);

/// The number of fields in the first record of a CSV file, plain or gzip; 0 if the file has no record.
/// @throws Error  if the file cannot be read, or the record cannot be split
std::size_t count_csv_fields(const std::string& path, const CsvDialect& dialect = {});

}  // namespace lockstep
