#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lockstep/data/files/file_bytes.h"
#include "lockstep/data/tables/arrow/arrow_batch.h"
#include "lockstep/data/tables/arrow/arrow_messages.h"
#include "lockstep/data/tables/arrow/arrow_schema.h"

namespace lockstep {

/// One file of Arrow: its columns, and where its batches of rows are.
class ArrowFile {
 public:
  /// @throws Error  with the path, if it is not a file or a stream of Arrow, or is damaged
  explicit ArrowFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const ArrowSchema& schema() const { return schema_; }
  std::size_t batches() const { return batches_.size(); }
  std::int64_t rows(std::size_t batch) const { return batches_[batch].batch.rows(); }
  /// The values of a column in a batch. @throws TableFault  if they are damaged
  ColumnBlock column(std::size_t field, std::size_t batch) const;

  std::string_view view() const { return file_.view(); }
  void require_whole() const { file_.require_whole(); }
  void expect_random_access() { file_.expect_random_access(); }

 private:
  struct Dictionary {
    std::int64_t number;
    ArrowBatch values;
  };
  struct LastDictionary {
    std::size_t index;
    std::shared_ptr<const ColumnBlock> values;
  };
  struct Batch {
    ArrowBatch batch;
    std::size_t dictionaries;  // those that came before it
  };

  void find_batches();
  void add_dictionary(const ArrowMessage& message);
  std::shared_ptr<const ColumnBlock> dictionary(std::size_t field, std::size_t before) const;

  FileBytes file_;
  ArrowSchema schema_;
  std::vector<Dictionary> dictionaries_;
  std::vector<Batch> batches_;
  mutable std::mutex mutex_;
  mutable std::map<std::size_t, LastDictionary> last_;  // the one that a column used last
};

}  // namespace lockstep
