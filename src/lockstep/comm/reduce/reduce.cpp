#include "lockstep/comm/reduce/reduce.h"

#include "lockstep/base/processor/instruction_set.h"
#include "lockstep/comm/reduce/reduce_table.h"

namespace lockstep::shm {
namespace {

const ReduceTable& choose() {
#if defined(__x86_64__)
  const InstructionSet widest = widest_instruction_set();
  if (widest == InstructionSet::Avx512) return *reduce_table_avx512();
  if (widest == InstructionSet::Avx2) return *reduce_table_avx2();
#endif
  return *reduce_table_baseline();
}

}  // namespace

std::size_t element_bytes(Element element) {
  switch (element) {
    case Element::F64:
    case Element::I64:
      return 8;
    case Element::F16:
    case Element::BF16:
      return 2;
    case Element::U8:
      return 1;
    default:
      return 4;
  }
}

void reduce(Element element, Reduction reduction, const std::byte* const* sources, int n_sources,
            std::byte* const* destinations, int n_destinations, std::size_t count) {
  static const ReduceTable& table = choose();
  const ReduceLoop loop = table[static_cast<std::size_t>(element)][static_cast<std::size_t>(reduction)];
  loop(sources, n_sources, destinations, n_destinations, count);
}

}  // namespace lockstep::shm
