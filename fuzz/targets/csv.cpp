#include <string>
#include <vector>

#include "fuzz/fuzz_target.h"
#include "fuzz/targets/targets.h"
#include "lockstep/data/csv/csv_scan_kernel.h"
#include "lockstep/data/csv/csv_tokenizer.h"

namespace lockstep::fuzz {
namespace {

using Records = std::vector<std::vector<std::string>>;

// The first byte chooses among the dialects that people write.
CsvDialect dialect_of(char choice) {
  constexpr char kDelimiters[] = {',', ';', '\t', '|'};
  const auto number = static_cast<unsigned char>(choice);
  constexpr char kQuotes[] = {'"', '\'', '\0', '"'};
  return {kDelimiters[number % 4], kQuotes[number / 4 % 4]};
}

void check_kernels(std::string_view text, const CsvDialect& dialect) {
  const std::size_t blocks = (text.size() + CsvScan::kBlockBytes - 1) / CsvScan::kBlockBytes;
  std::string padded(text);
  padded.resize(blocks * CsvScan::kBlockBytes + 1, ' ');
  const CsvMarks marks{dialect.delimiter, dialect.quote, dialect.quote != '\0'};
  std::vector<CsvBlock> first(blocks);
  for (const ScanKernel& kernel : scan_kernels()) {
    std::vector<CsvBlock> found(blocks);
    kernel.scan(padded.data(), blocks, marks, found.data());
    if (&kernel == &scan_kernels().front()) first = found;
    for (std::size_t i = 0; i < blocks; ++i) {
      LOCKSTEP_HOLDS(found[i].ends == first[i].ends && found[i].stops == first[i].stops);
    }
  }
}

Records records_of(std::string_view text, const CsvDialect& dialect) {
  CsvTokenizer tokenizer(text, "file.csv", dialect);
  Records records;
  std::vector<CsvField> fields;
  std::size_t last = 0;
  while (tokenizer.next(fields)) {
    LOCKSTEP_HOLDS(!fields.empty() && tokenizer.offset() > last);
    last = tokenizer.offset();
    records.emplace_back();
    for (const CsvField& field : fields) {
      LOCKSTEP_HOLDS(field.text.data() >= text.data());
      LOCKSTEP_HOLDS(field.text.data() + field.text.size() <= text.data() + text.size());
      LOCKSTEP_HOLDS(!tokenizer.where(field).empty());
      std::string storage;
      records.back().emplace_back(field.value(storage));
    }
  }
  return records;
}

// Every field in quotes, so that nothing in it counts.
std::string quoted(const Records& records, const CsvDialect& dialect) {
  std::string text;
  for (const auto& record : records) {
    for (const std::string& field : record) {
      if (&field != &record.front()) text += dialect.delimiter;
      text += dialect.quote;
      for (const char c : field) text += c == dialect.quote ? std::string(2, c) : std::string(1, c);
      text += dialect.quote;
    }
    text += '\n';
  }
  return text;
}

}  // namespace

void run_csv(std::string_view bytes) {
  if (bytes.empty()) return;
  const CsvDialect dialect = dialect_of(bytes.front());
  bytes.remove_prefix(1);
  check_kernels(bytes, dialect);
  const Records records = records_of(bytes, dialect);
  if (dialect.quote != '\0') LOCKSTEP_HOLDS(records_of(quoted(records, dialect), dialect) == records);
}

}  // namespace lockstep::fuzz
