// Before anything is drawn: light or dark, if somebody chose it here.
try {
  const chosen = localStorage.getItem("parqlake-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch { /* without storage, the system's choice stands */ }
