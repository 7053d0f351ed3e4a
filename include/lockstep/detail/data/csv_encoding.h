#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lockstep/data/batch.h"
#include "lockstep/detail/data/csv_schema.h"

namespace lockstep {

class CsvColumns;
struct CsvColumnData;

/// The encoding learned from the columns of a training file: ranges of numbers, lists of categories and of classes. In
/// another file, an equal text or number becomes an equal feature.
class CsvEncoding {
 public:
  /// Most features that a file may make.
  static constexpr std::int64_t kMostFeatures = 65536;

  /// Learns from the columns of a training file.
  /// @throws Error  if they make more than `kMostFeatures` features
  CsvEncoding(const CsvSchema& schema, const CsvColumns& columns);

  /// "features" [rows, features] float32, and "labels" [rows] int64 if the schema has a label.
  /// @param schema  of the file that `columns` were read from: names, kinds and scaling equal to the training file's;
  /// ignored columns and the order may differ
  /// @throws Error  with file, line and column, if a category or class is unknown and unknown ones are not allowed; or
  /// if a feature's column is missing, or was not in the training file
  Batch encode(const CsvSchema& schema, const CsvColumns& columns, const std::string& path) const;

  /// All that was learned, as a JSON object. Saved beside a model, it encodes other files without the training file.
  std::string json() const;
  /// @param path  where `text` was read, for errors
  /// @throws Error  if `text` is not what `json` returns
  static CsvEncoding from_json(const std::string& text, const std::string& path);

  /// The columns that make features, as they were declared or learned.
  std::vector<CsvColumn> feature_columns() const;
  /// One name for each feature: the column's, or "column=value".
  const std::vector<std::string>& feature_names() const { return feature_names_; }
  /// The class of each text of the label column.
  const std::map<std::string, std::int64_t>& classes() const { return classes_; }

 private:
  CsvEncoding() = default;

  struct Feature {
    CsvColumn declared;
    double offset = 0;  // subtracted from a number, or from its logarithm,
    double factor = 1;  // which is then multiplied
    std::int64_t first = 0;
    std::int64_t width = 1;
  };

  // A feature's column in a file that is read.
  struct Source {
    const Feature* feature;
    const CsvColumnData* data;
    std::vector<std::int64_t> value_of_text;  // for a category: position in the list, or -1 if the text is not listed
  };

  void add(Feature feature);
  void learn_number(Feature& feature, const CsvColumnData& data);
  void learn_category(Feature& feature, const CsvColumnData& data);
  void learn_classes(const CsvColumn& label, const CsvColumnData& data);
  const Feature& feature_of(const CsvColumn& column, const std::string& path) const;
  void write(const std::vector<Source>& sources, std::int64_t begin, std::int64_t end, float* out) const;
  at::Tensor labels(const CsvColumn& label, const CsvColumnData& data) const;

  std::vector<Feature> features_;
  std::vector<std::string> feature_names_;
  std::map<std::string, std::int64_t> classes_;
};

}  // namespace lockstep
