// Remembers what was looked at last.
document.querySelectorAll('.tile a').forEach((link) => {
    link.addEventListener('click', () => localStorage.setItem('last', link.getAttribute('href')));
});
