#include "lockstep/data/csv_reader.h"

#include "lockstep/data/csv/csv_columns.h"
#include "lockstep/data/csv/csv_tokenizer.h"
#include "lockstep/data/files/file_bytes.h"

namespace lockstep {

CsvData read_csv(const std::string& path, const CsvSchema& schema) {
  check_schema(schema);
  const FileBytes file = FileBytes::open_text(path);
  const CsvColumns columns(file.view(), path, schema);
  CsvEncoding encoding(schema, columns);
  auto dataset = std::make_shared<TensorDataset>(encoding.encode(schema, columns, path));
  file.require_whole();
  return {std::move(dataset), std::move(encoding)};
}

std::shared_ptr<TensorDataset> read_csv(const std::string& path, const CsvSchema& schema, const CsvEncoding& encoding) {
  check_schema(schema);
  const FileBytes file = FileBytes::open_text(path);
  const CsvColumns columns(file.view(), path, schema);
  auto dataset = std::make_shared<TensorDataset>(encoding.encode(schema, columns, path));
  file.require_whole();
  return dataset;
}

std::size_t count_csv_fields(const std::string& path, const CsvDialect& dialect) {
  const FileBytes file = FileBytes::open_text(path);
  CsvTokenizer tokenizer(file.view(), path, dialect);
  std::vector<CsvField> fields;
  const std::size_t count = tokenizer.next(fields) ? fields.size() : 0;
  file.require_whole();
  return count;
}

}  // namespace lockstep
