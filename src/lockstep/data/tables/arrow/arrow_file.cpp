#include "lockstep/data/tables/arrow/arrow_file.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/data/tables/parquet/parquet_metadata.h"
#include "lockstep/data/tables/table_fault.h"

namespace lockstep {

ArrowFile::ArrowFile(const std::string& path) : file_(FileBytes::open(path)) {
  try {
    find_batches();
  } catch (const TableFault& fault) {
    throw Error(fmt::format("cannot read the Arrow file: {}", fault.what()), path, fault.fix());
  }
}

void ArrowFile::find_batches() {
  ArrowMessages messages(file_.view());
  const std::int64_t most = most_rows(file_.view().size());
  std::int64_t rows = 0;
  bool has_schema = false;
  while (const auto message = messages.next()) {
    if ((message->kind == ArrowMessage::Kind::Schema) == has_schema) {
      throw TableFault("its description does not stand in front of its rows");
    }
    has_schema = true;
    if (message->kind == ArrowMessage::Kind::Schema) schema_ = read_arrow_schema_message(message->content);
    if (message->kind == ArrowMessage::Kind::Dictionary) add_dictionary(*message);
    if (message->kind != ArrowMessage::Kind::Rows) continue;
    const ArrowBatch batch(message->content, message->body);
    if (batch.rows() < 0 || batch.rows() > most - rows) {
      throw TableFault(fmt::format("a batch in it announces {} rows", batch.rows()));
    }
    rows += batch.rows();
    if (batch.rows() > 0) batches_.push_back({batch, dictionaries_.size()});
  }
  if (!has_schema) throw TableFault("it does not describe its columns");
}

void ArrowFile::add_dictionary(const ArrowMessage& message) {
  const auto values = message.content.table(1);
  if (!values) throw TableFault("a dictionary has no values");
  if (message.content.number<std::int8_t>(2, 0) != 0) {
    throw TableFault("a dictionary grows from batch to batch, which is not read",
                     "write it again, in Python: table.unify_dictionaries()");
  }
  dictionaries_.push_back({message.content.number<std::int64_t>(0, 0), ArrowBatch(*values, message.body)});
}

ColumnBlock ArrowFile::column(std::size_t field, std::size_t batch) const {
  const ArrowField& wanted = schema_.fields[field];
  const Batch& at = batches_[batch];
  if (!wanted.has_dictionary) return at.batch.column(wanted, nullptr);
  return at.batch.column(wanted, dictionary(field, at.dictionaries).get());
}

// The last one of those before, in the order of the file.
std::shared_ptr<const ColumnBlock> ArrowFile::dictionary(std::size_t field, std::size_t before) const {
  const ArrowField& wanted = schema_.fields[field];
  std::size_t behind = before;
  while (behind > 0 && dictionaries_[behind - 1].number != wanted.dictionary) --behind;
  if (behind == 0) throw TableFault("values are places in a dictionary that is not there");
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto last = last_.find(field);
    if (last != last_.end() && last->second.index == behind - 1) return last->second.values;
  }
  auto values = std::make_shared<const ColumnBlock>(dictionaries_[behind - 1].values.values(wanted));
  const std::lock_guard<std::mutex> lock(mutex_);
  last_[field] = {behind - 1, values};
  return values;
}

}  // namespace lockstep
