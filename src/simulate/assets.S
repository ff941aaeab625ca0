/* Files that `weir simulate --html` writes out, as they are; paths come from meson.build. */
#define ASSET(name, path)                                                                          \
	.global name; .hidden name; .global name##_end; .hidden name##_end;                            \
	name: .incbin path; name##_end:

	.section .rodata
ASSET(simulate_page, PAGE)
ASSET(simulate_chart, CHART)
ASSET(simulate_style, STYLE)

	.section .note.GNU-stack, "", %progbits
