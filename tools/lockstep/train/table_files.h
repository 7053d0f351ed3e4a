// Tables as `lockstep train`, `evaluate` and `predict` read them: NSL-KDD by its format, others by their header.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/data/tensor_dataset.h"
#include "lockstep/detail/data/csv_encoding.h"
#include "tools/lockstep/flags/table_flags.h"

namespace lockstep {

/// How a table becomes features and classes. It is learned from the file that a model is trained on, and saved in the
/// model's folder, so that other files are read in the same way without that file. Columns of numbers are scaled,
/// others are one-hot.
class TableEncoding {
 public:
  /// The file's name in the folder of a model of tables.
  static constexpr const char* kFile = "preprocessor_config.json";

  /// Learns from a training file. @param label  its label column; empty: "label". @param form  how it is written
  /// @param rows  set to the file's rows. @param warnings  receives notes on unusual columns
  /// @throws UsageError, Error  naming file and column; with its line, for a cell without a number in a column of
  /// numbers
  static TableEncoding learn(const std::string& train_file, const std::string& label, const TableForm& form,
                             std::shared_ptr<TensorDataset>& rows, std::vector<std::string>& warnings);
  /// The encoding in a model's folder. @throws Error  if there is none
  static TableEncoding of_folder(const std::string& folder);
  /// The content of kFile.
  std::string json() const;

  std::int64_t features() const { return static_cast<std::int64_t>(encoding_.feature_names().size()); }
  /// The column of the label in the training file; empty: the file is NSL-KDD's.
  const std::string& label() const { return label_; }
  /// Names of the classes, by number.
  std::vector<std::string> classes() const;
  /// Rows with labels. @param label  the label column; empty: as in the training file
  std::shared_ptr<TensorDataset> read(const std::string& path, const TableForm& form,
                                      const std::string& label = "") const;
  /// [rows, features]; a label in the file is ignored.
  at::Tensor read_features(const std::string& path, const TableForm& form) const;

 private:
  TableEncoding(CsvEncoding encoding, std::string label, bool is_nsl_kdd);
  CsvSchema schema_of(const std::string& path, const TableForm& form, const std::string& label) const;

  CsvEncoding encoding_;
  std::string label_;
  bool is_nsl_kdd_ = false;
};

}  // namespace lockstep
