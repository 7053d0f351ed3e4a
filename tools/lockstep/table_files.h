// Tables as `lockstep train`, `evaluate` and `predict` read them: NSL-KDD by its form, others by their header.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/data/tensor_dataset.h"

namespace lockstep {

struct TrainingTables {
  std::shared_ptr<TensorDataset> train;
  std::shared_ptr<TensorDataset> eval;  ///< null without a validation file
  std::int64_t classes = 0;
};

/// Reads a table to train on, and perhaps one to validate on. Columns of numbers are scaled, others become one-hot.
/// @param label_column_name  empty: "label"
/// @throws UsageError, Error  naming file and column
TrainingTables read_training_tables(const std::string& train_file, const std::string& validation_file,
                                    const std::string& label_column_name);

/// Rows without labels.
struct TableToPredict {
  at::Tensor features;               ///< [rows, features]
  std::vector<std::string> classes;  ///< their names, by number
};

/// Reads a table as the training file taught; a label in it is not looked at. Throws as above.
TableToPredict read_table_to_predict(const std::string& train_file, const std::string& file,
                                     const std::string& label_column_name);

}  // namespace lockstep
