/* The page that `weir simulate --html` writes out; its path comes from meson.build. */
	.section .rodata
	.global simulate_page, simulate_page_end
	.hidden simulate_page, simulate_page_end
simulate_page:
	.incbin PAGE
simulate_page_end:

	.section .note.GNU-stack, "", %progbits
