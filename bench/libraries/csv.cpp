// The fields of CSV files: CsvTokenizer. `measure` prints Arrow's side.
#include "bench/libraries/turns.h"
#include "lockstep/data/csv/csv_tokenizer.h"
#include "lockstep/data/files/file_bytes.h"

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const lockstep::FileBytes file = lockstep::FileBytes::open(argv[i]);
    const auto split = [&] {
      lockstep::CsvTokenizer tokenizer(file.view(), file.path());
      std::vector<lockstep::CsvField> fields;
      std::size_t bytes = 0;
      while (tokenizer.next(fields)) {
        for (const lockstep::CsvField& field : fields) bytes += field.text.size();
      }
      return bytes;
    };
    lockstep::print_turns(argv[i], file.view().size(), {{"CsvTokenizer", split}});
  }
}
