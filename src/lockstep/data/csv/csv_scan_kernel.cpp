#include "lockstep/data/csv/csv_scan_kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "lockstep/base/processor/instruction_set.h"

namespace lockstep {
namespace {

// How far ahead memory is prefetched: past the end of a page, where the processor does not prefetch by itself.
constexpr std::size_t kPrefetchBytes = 4096;

// The kinds of 64 bytes, one bit each.
struct CsvByteMasks {
  std::uint64_t delimiters;
  std::uint64_t line_ends;
  std::uint64_t quotes;
};

CsvBlock block_of(const CsvByteMasks& masks, const CsvMarks& marks, char behind) {
  if (!marks.has_quote) return {masks.delimiters | masks.line_ends, masks.line_ends};
  const std::uint64_t before_quotes = masks.quotes >> 1 | std::uint64_t{behind == marks.quote} << 63;
  return {masks.delimiters | masks.line_ends, masks.line_ends | (masks.delimiters & before_quotes)};
}

void scan_plain(const char* bytes, std::size_t count, const CsvMarks& marks, CsvBlock* blocks) {
  for (std::size_t block = 0; block < count; ++block, bytes += CsvScan::kBlockBytes) {
    CsvByteMasks masks{};
    for (std::size_t i = 0; i < CsvScan::kBlockBytes; ++i) {
      masks.delimiters |= std::uint64_t{bytes[i] == marks.delimiter} << i;
      masks.line_ends |= std::uint64_t{bytes[i] == '\n' || bytes[i] == '\r'} << i;
      masks.quotes |= std::uint64_t{bytes[i] == marks.quote} << i;
    }
    blocks[block] = block_of(masks, marks, bytes[CsvScan::kBlockBytes]);
  }
}

#if defined(__x86_64__)

std::uint64_t bits_of(__m128i hits) { return static_cast<unsigned>(_mm_movemask_epi8(hits)); }

void scan_sse2(const char* bytes, std::size_t count, const CsvMarks& marks, CsvBlock* blocks) {
  const __m128i delimiter = _mm_set1_epi8(marks.delimiter);
  const __m128i quote = _mm_set1_epi8(marks.quote);
  const __m128i lf = _mm_set1_epi8('\n');
  const __m128i cr = _mm_set1_epi8('\r');
  for (std::size_t block = 0; block < count; ++block, bytes += CsvScan::kBlockBytes) {
    __builtin_prefetch(bytes + kPrefetchBytes);
    CsvByteMasks masks{};
    for (int i = 0; i < 4; ++i) {
      const __m128i part = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes) + i);
      masks.delimiters |= bits_of(_mm_cmpeq_epi8(part, delimiter)) << (16 * i);
      masks.line_ends |= bits_of(_mm_or_si128(_mm_cmpeq_epi8(part, lf), _mm_cmpeq_epi8(part, cr))) << (16 * i);
      masks.quotes |= bits_of(_mm_cmpeq_epi8(part, quote)) << (16 * i);
    }
    blocks[block] = block_of(masks, marks, bytes[CsvScan::kBlockBytes]);
  }
}

__attribute__((target("avx2"))) void scan_avx2(const char* bytes, std::size_t count, const CsvMarks& marks,
                                               CsvBlock* blocks) {
  const __m256i delimiter = _mm256_set1_epi8(marks.delimiter);
  const __m256i quote = _mm256_set1_epi8(marks.quote);
  const __m256i lf = _mm256_set1_epi8('\n');
  const __m256i cr = _mm256_set1_epi8('\r');
  for (std::size_t block = 0; block < count; ++block, bytes += CsvScan::kBlockBytes) {
    __builtin_prefetch(bytes + kPrefetchBytes);
    CsvByteMasks masks{};
    for (int i = 0; i < 2; ++i) {
      const __m256i part = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes) + i);
      const __m256i line_ends = _mm256_or_si256(_mm256_cmpeq_epi8(part, lf), _mm256_cmpeq_epi8(part, cr));
      const auto bits = [](int mask) { return std::uint64_t{static_cast<unsigned>(mask)}; };
      masks.delimiters |= bits(_mm256_movemask_epi8(_mm256_cmpeq_epi8(part, delimiter))) << (32 * i);
      masks.line_ends |= bits(_mm256_movemask_epi8(line_ends)) << (32 * i);
      masks.quotes |= bits(_mm256_movemask_epi8(_mm256_cmpeq_epi8(part, quote))) << (32 * i);
    }
    blocks[block] = block_of(masks, marks, bytes[CsvScan::kBlockBytes]);
  }
}

__attribute__((target("avx512bw"))) void scan_avx512(const char* bytes, std::size_t count, const CsvMarks& marks,
                                                     CsvBlock* blocks) {
  const __m512i delimiter = _mm512_set1_epi8(marks.delimiter);
  const __m512i quote = _mm512_set1_epi8(marks.quote);
  const __m512i lf = _mm512_set1_epi8('\n');
  const __m512i cr = _mm512_set1_epi8('\r');
  for (std::size_t block = 0; block < count; ++block, bytes += CsvScan::kBlockBytes) {
    __builtin_prefetch(bytes + kPrefetchBytes);
    const __m512i part = _mm512_loadu_si512(bytes);
    const CsvByteMasks masks{_mm512_cmpeq_epi8_mask(part, delimiter),
                             _mm512_cmpeq_epi8_mask(part, lf) | _mm512_cmpeq_epi8_mask(part, cr),
                             _mm512_cmpeq_epi8_mask(part, quote)};
    blocks[block] = block_of(masks, marks, bytes[CsvScan::kBlockBytes]);
  }
}

#endif

}  // namespace

const std::vector<ScanKernel>& scan_kernels() {
  static const std::vector<ScanKernel> kernels = [] {
    std::vector<ScanKernel> known{{"plain", scan_plain}};
#if defined(__x86_64__)
    known.push_back({"sse2", scan_sse2});
    const InstructionSet widest = widest_instruction_set();
    if (widest >= InstructionSet::Avx2) known.push_back({"avx2", scan_avx2});
    if (widest >= InstructionSet::Avx512) known.push_back({"avx512", scan_avx512});
#endif
    return known;
  }();
  return kernels;
}

}  // namespace lockstep
